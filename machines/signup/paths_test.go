package signup_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// constant is a stateless mailer and account service.
type constant struct{}

func (constant) SendVerification(context.Context, signup.Verification) (string, error) {
	return code(1), nil
}

func (constant) Provision(context.Context, signup.Account) (string, error) { return "account-1", nil }

// limits keep the number of paths small.
var limits = signup.Config{WrongCodesMax: 3, ResendsMax: 1, AddressChangesMax: 1}

// paths returns a chart and the events that reach all of its states.
func paths() (*statechart.Chart[signup.Context], statecharttest.PathConfig[signup.Context]) {
	return signup.New(constant{}, constant{}, limits), statecharttest.PathConfig[signup.Context]{
		Events: []statecharttest.Event{
			{Type: "SIGN_UP", Payload: ada},
			{Type: "VERIFY", Payload: signup.Verify{Code: code(1)}, Name: "VERIFY with the code"},
			{Type: "VERIFY", Payload: signup.Verify{Code: "wrong"}, Name: "VERIFY with a wrong code"},
			{Type: "RESEND"},
			{Type: "CHANGE_ADDRESS", Payload: signup.ChangeAddress{Email: "ada@example.org"}},
			{Type: "CANCEL"},
		},
		Start: statecharttest.Config{Instance: "signup/ada"},
	}
}

func TestEveryOutcomeCanBeReached(t *testing.T) {
	t.Parallel()
	chart, config := paths()
	if _, err := statecharttest.FinalPaths(chart, config); err != nil {
		t.Error(err)
	}
}

func TestOnEveryPathCountsStayWithinLimitsAndOnlyActiveUsersHaveAnAccount(t *testing.T) {
	t.Parallel()
	var coverage statecharttest.Coverage
	chart, config := paths()
	config.Start.Coverage = &coverage
	config.Invariant = func(s statechart.Snapshot[signup.Context]) error {
		c := s.Context
		if c.WrongCodes > limits.WrongCodesMax || c.Resends > limits.ResendsMax || c.AddressChanges > limits.AddressChangesMax {
			return fmt.Errorf("expected the counts to be within the limits, got %+v", c)
		}
		if s.Matches("locked") != (c.WrongCodes == limits.WrongCodesMax) {
			return fmt.Errorf("in %v after %d wrong codes of %d", s.State(), c.WrongCodes, limits.WrongCodesMax)
		}
		if s.Matches("active") != (c.AccountID != "") {
			return fmt.Errorf("in %v with the account %q", s.State(), c.AccountID)
		}
		return nil
	}
	statecharttest.RunPaths(t, chart, config, nil)
	coverage.Require(t)
}
