package benchmark

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

const (
	xstateScript  = "testdata/npm/cases.mjs"
	xstatePackage = "testdata/npm/node_modules/xstate/package.json"
)

// XState runs every case in Node. The command in the folder table measures it.
func TestXStateDoesTheSameWork(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(xstatePackage); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Skip("XState is not installed; `make test` and `make bench` install it")
	}
	args := []string{xstateScript, "check"}
	for _, n := range checkpoints {
		args = append(args, strconv.Itoa(n))
	}
	command := exec.CommandContext(t.Context(), "node", args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]seen
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(cases) {
		t.Errorf("expected the %d cases that Go has, got %d", len(cases), len(got))
	}
	for _, c := range cases {
		if len(got[c.name]) != len(checkpoints) {
			t.Errorf("case %s: expected %d checkpoints, got %d", c.name, len(checkpoints), len(got[c.name]))
			continue
		}
		for i, n := range checkpoints {
			t.Run(c.name+"/"+xstate, func(t *testing.T) { compare(t, n, got[c.name][i], c.want(n)) })
		}
	}
}
