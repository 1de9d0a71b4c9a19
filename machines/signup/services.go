package signup

import (
	"context"
	"errors"

	"github.com/settle-run/settle/runtime/statechart"
)

// Mailer generates codes and mails them.
type Mailer interface {
	// SendVerification mails a code to the address and returns the code. A failed attempt is retried under
	// Config.ServiceRetry, unless its error is marked with statechart.Permanent.
	//
	// If an attempt fails or its result is lost, SendVerification is called again with the same IdempotencyKey. It may
	// then send another mail, with the same code or a new one. Only the code that the last call returns is accepted, so it
	// must be the code in the last mail. A mailer that skips the second mail must return the code of the first.
	SendVerification(ctx context.Context, verification Verification) (code string, err error)
}

// Verification is a request to mail a code.
type Verification struct {
	// IdempotencyKey is the same for all attempts to send one mail. No other mail has it.
	IdempotencyKey string
	Email          string
	Name           string
}

// Accounts creates accounts.
type Accounts interface {
	// Provision creates an account and returns its ID. Calls with the same IdempotencyKey must create one account and
	// return the same ID. A failed attempt is retried under Config.ServiceRetry, unless its error is marked with
	// statechart.Permanent.
	Provision(ctx context.Context, account Account) (accountID string, err error)
}

// Account is a request to create an account.
type Account struct {
	// IdempotencyKey is the same for all attempts to create the account.
	IdempotencyKey string
	// Email is the user's verified address.
	Email string
	Name  string
}

// sent is the result of sendVerification. It does not contain the code.
type sent struct {
	CodeHash string `json:"code_hash"`
}

// provisioned is the result of provisionAccount.
type provisioned struct {
	AccountID string `json:"account_id"`
}

func sendVerification(mailer Mailer, codeKey []byte) statechart.Service[Context] {
	return statechart.ServiceFunc("sendVerification", func(ctx context.Context, c Context, call statechart.Call) (sent, error) {
		code, err := mailer.SendVerification(ctx, Verification{IdempotencyKey: call.Key, Email: c.Email, Name: c.Name})
		if err != nil {
			return sent{}, err
		}
		if code == "" {
			return sent{}, statechart.Permanent(errors.New("expected the mailed code, got an empty one"))
		}
		return sent{CodeHash: hashCode(codeKey, c.Instance, code)}, nil
	})
}

func provisionAccount(accounts Accounts) statechart.Service[Context] {
	return statechart.ServiceFunc("provisionAccount", func(ctx context.Context, c Context, call statechart.Call) (provisioned, error) {
		id, err := accounts.Provision(ctx, Account{IdempotencyKey: call.Key, Email: c.Email, Name: c.Name})
		return provisioned{AccountID: id}, err
	})
}
