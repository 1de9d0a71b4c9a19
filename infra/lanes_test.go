package infra_test

import (
	"strings"
	"testing"
)

// someLanes is the output Lanes of a stack.
const someLanes = "bulk=arn:aws:sqs:eu-central-1:123456789012:settle-bulk.fifo,vip=arn:aws:sqs:eu-central-1:123456789012:settle-vip.fifo\n"

func TestDeployRefusesToRemoveLanes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, stack, template, want string
		env                         []string
	}{
		{"a stack without lanes", "", "./template.yaml", "", nil},
		{"no stack", "None\n", "template.yaml", "", []string{"LANES=main:50 bulk:10", "TEMPLATE=template.yaml"}},
		{"all lanes, and one more", someLanes, "template.yaml", "", []string{"LANES=main vip:2-20 other bulk:10", "LANE_RULES=job=bulk|vip", "TEMPLATE=template.yaml"}},
		{"the lanes are forgotten", someLanes, "", "would remove: bulk vip.", nil},
		{"one lane is missing", someLanes, "", "would remove: bulk.", []string{"LANES=main vip bulk-2", "TEMPLATE=template.yaml"}},
		{"the lanes are removed", someLanes, "./template.yaml", "", []string{"REMOVE_LANES=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said, calls, code := script(t, "deploy.sh", keys, map[string]string{"lanes": c.stack}, c.env...)
			deployed := with(calls, "cloudformation deploy")
			if c.want != "" && (code != 1 || !strings.Contains(said, c.want) || len(deployed)+len(with(calls, "s3api put-object")) != 0) {
				t.Errorf("expected %q and no deployment, got exit code %d, %q and\n%s", c.want, code, deployed, said)
			}
			if c.want == "" && (code != 0 || len(deployed) != 1 || !strings.Contains(deployed[0], "--template-file "+c.template+" ")) {
				t.Errorf("expected a deployment of %s, got exit code %d, %q and\n%s", c.template, code, deployed, said)
			}
		})
	}
}

func TestDeployRejectsInvalidLanes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	for env, want := range map[string]string{
		"STACK=" + long:                     "expected queue names of at most 80 characters, got 81, '" + long + "-priority-10.fifo'",
		"PARAMETERS=ConsumerConcurrency=20": "expected no ConsumerConcurrency with LANES, got 'ConsumerConcurrency=20': set the size of the main lane in LANES",
		"PARAMETERS=ConsumerPollers=2-20":   "expected no ConsumerPollers with LANES",
	} {
		said, calls, code := script(t, "deploy.sh", keys, nil, "LANES=main:50 priority-10:10", env)
		if code != 2 || !strings.Contains(said, want) || len(calls) != 0 {
			t.Errorf("%s: expected exit code 2, %q and no calls, got %d, %q and\n%s", env, want, code, calls, said)
		}
	}
}

func TestDestroyCountsTheMessagesOfLanes(t *testing.T) {
	t.Parallel()
	said, calls, code := script(t, "destroy.sh", "", map[string]string{"live": "\n", "waiting": "1\t0\t2\n", "lanes": someLanes})
	counted := strings.Join(with(calls, "sqs get-queue-attributes"), "\n")
	if code != 1 || !strings.Contains(said, "about 24 messages in its queues") || !strings.Contains(counted, "/settle-bulk.fifo ") || !strings.Contains(counted, "/settle-vip.fifo ") {
		t.Errorf("expected the messages of eight queues, got exit code %d, %s and\n%s", code, counted, said)
	}
}
