package signup

import (
	"context"
	"errors"

	"github.com/settle-run/settle/runtime/statechart"
)

// Mailer makes codes and mails them.
type Mailer interface {
	// SendVerification mails a code to the address and returns it. An error is retried by
	// Config.ServiceRetry, unless it is marked by statechart.Permanent.
	//
	// It may be called again with the same IdempotencyKey, because an attempt failed, or
	// because its result was lost. It may then send another mail, with the same code or with
	// a new one: the code that the last call returns is the one that will be accepted, so it
	// must be the code of the mail that was sent last. A mailer that leaves out the second
	// mail must return the code of the first.
	SendVerification(ctx context.Context, verification Verification) (code string, err error)
}

// Verification asks for a mail with a code.
type Verification struct {
	// IdempotencyKey is the same in all attempts to send one mail, and in no other.
	IdempotencyKey string
	Email          string
	Name           string
}

// Accounts makes accounts.
type Accounts interface {
	// Provision makes an account and returns its ID. Calls with the same IdempotencyKey must
	// make one account and return the same ID. An error is retried by Config.ServiceRetry,
	// unless it is marked by statechart.Permanent.
	Provision(ctx context.Context, account Account) (accountID string, err error)
}

// Account asks for an account.
type Account struct {
	// IdempotencyKey is the same in all attempts to make the account.
	IdempotencyKey string
	// Email is the address that the user was shown to receive mail at.
	Email string
	Name  string
}

// sent is the result of sendVerification. The code itself does not leave the service.
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
			return sent{}, statechart.Permanent(errors.New("expected the code that was mailed, got an empty one"))
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
