package scheduler

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// The types below have the members of Scheduler's REST-JSON protocol.

type (
	scheduleInput struct {
		definition
		ClientToken string
		GroupName   string
	}
	// definition is the user's part of a schedule. It is stored with its defaults set.
	definition struct {
		ActionAfterCompletion      string
		Description                string `json:",omitempty"`
		EndDate                    *epoch `json:",omitempty"`
		FlexibleTimeWindow         *flexibleTimeWindow
		ScheduleExpression         string
		ScheduleExpressionTimezone string
		StartDate                  *epoch `json:",omitempty"`
		State                      string
		Target                     *target
	}
	flexibleTimeWindow struct {
		MaximumWindowInMinutes *int `json:",omitempty"`
		Mode                   string
	}
	target struct {
		Arn              string
		DeadLetterConfig *deadLetterConfig `json:",omitempty"`
		Input            string            `json:",omitempty"`
		RetryPolicy      *retryPolicy
		RoleArn          string
		SqsParameters    *sqsParameters `json:",omitempty"`
	}
	deadLetterConfig struct{ Arn string }
	retryPolicy      struct {
		MaximumEventAgeInSeconds *int
		MaximumRetryAttempts     *int
	}
	sqsParameters struct{ MessageGroupId string }

	scheduleOutput    struct{ ScheduleArn string }
	getScheduleOutput struct {
		definition
		Arn                  string
		CreationDate         epoch
		GroupName            string
		LastModificationDate epoch
		Name                 string
	}
	listSchedulesOutput struct {
		NextToken string `json:",omitempty"`
		Schedules []scheduleSummary
	}
	scheduleSummary struct {
		Arn                  string
		CreationDate         epoch
		GroupName            string
		LastModificationDate epoch
		Name                 string
		State                string
		Target               targetSummary
	}
	targetSummary struct{ Arn string }

	groupInput struct {
		ClientToken string
		Tags        []tag
	}
	createGroupOutput struct{ ScheduleGroupArn string }
	groupOutput       struct {
		Arn                  string
		CreationDate         epoch
		LastModificationDate epoch
		Name                 string
		State                string
	}
	listGroupsOutput struct {
		NextToken      string `json:",omitempty"`
		ScheduleGroups []groupOutput
	}

	tagsInput  struct{ Tags []tag }
	tagsOutput struct{ Tags []tag }
	tag        struct{ Key, Value string }

	// empty is the output of operations without output members.
	empty struct{}
)

// epochMax is the end of the year 9999.
const epochMax = 253402300799

// epoch is a time in wire form: seconds since 1970, with up to three decimals.
type epoch time.Time

func (e epoch) time() time.Time { return time.Time(e) }

// MarshalJSON implements json.Marshaler.
func (e epoch) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(e.time().UnixMilli())/1000, 'f', -1, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *epoch) UnmarshalJSON(text []byte) error {
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return err
	}
	if seconds < 0 || seconds > epochMax {
		return fmt.Errorf("expected a time in seconds, from 0 to %d, got %s", epochMax, text)
	}
	*e = epoch(time.UnixMilli(int64(math.Round(seconds * 1000))).UTC())
	return nil
}
