package host

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

func TestSchedulesFollowTheSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: awslocal.New(awslocal.Config{}).HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		client := scheduler.NewFromConfig(config)
		if _, err := client.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: aws.String("orders")}); err != nil {
			t.Fatal(err)
		}
		settings := Settings{
			DelayQueueURL: "delays", DelayQueueARN: "arn:aws:sqs:us-east-1:000000000000:delays", DelayDeadLetterQueueARN: "arn:aws:sqs:us-east-1:000000000000:lost",
			SchedulerRoleARN: "arn:aws:iam::000000000000:role/scheduler", ScheduleGroup: "orders",
		}
		_, timers, err := newTimers(&Process{AWS: config, Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		message := durable.Message{To: instances.ID{Machine: "order", ID: "1"}, Body: []byte(`{}`), DeduplicationID: "d"}
		if err := timers.Schedule(t.Context(), time.Now().Add(time.Hour), message); err != nil {
			t.Fatal(err)
		}
		listed, err := client.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{GroupName: aws.String("orders")})
		if err != nil || len(listed.Schedules) != 1 {
			t.Fatalf("expected one schedule in the group, got %+v and %v", listed, err)
		}
		made, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{GroupName: aws.String("orders"), Name: listed.Schedules[0].Name})
		if err != nil {
			t.Fatal(err)
		}
		if target := made.Target; aws.ToString(target.Arn) != settings.DelayQueueARN || aws.ToString(target.RoleArn) != settings.SchedulerRoleARN ||
			target.DeadLetterConfig == nil || aws.ToString(target.DeadLetterConfig.Arn) != settings.DelayDeadLetterQueueARN {
			t.Errorf("expected the queues and the role of the settings, got %+v", target)
		}
	})
}
