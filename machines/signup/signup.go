// Package signup registers a user: it mails a code, waits until the user sends the code back, and creates the account.
//
// # Properties
//
// Only the code of the last mail is accepted. RESEND and CHANGE_ADDRESS send another mail, which invalidates the
// previous code.
//
// Wrong codes are counted over the whole sign-up. Neither a new code nor a new address gives further guesses: the
// fifth wrong code ends the sign-up.
//
// The user has 24 hours from SIGN_UP. The deadline is a timer of the state unverified, which spans all mails and waits,
// so no mail extends it. After the right code it no longer applies, even while the account is being created.
//
// RESEND and CHANGE_ADDRESS are ignored once their limit is reached. The last code stays valid.
//
// A mail that cannot be sent ends the sign-up, even if it is not the first mail, because each mail invalidates the
// previous code.
//
// The context contains no code, only a hash: see [Config.CodeKey].
package signup

import (
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the final states for permanent service failures, which are not the user's fault.
const Failed = "failed"

// Retention is how long a finished instance is kept, with the user's name and address.
const Retention = 15 * 24 * time.Hour

// StartedBy names the event that starts an instance.
var StartedBy = []string{"SIGN_UP"}

// Context is the data of an instance.
type Context struct {
	// Instance salts CodeHash.
	Instance string `json:"instance"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	// CodeHash is the hash of the last code. See hashCode.
	CodeHash string `json:"code_hash,omitempty"`
	// Invariant: WrongCodes <= Config.WrongCodesMax.
	WrongCodes int `json:"wrong_codes"`
	// Invariant: Resends <= Config.ResendsMax.
	Resends int `json:"resends"`
	// Invariant: AddressChanges <= Config.AddressChangesMax.
	AddressChanges int `json:"address_changes"`
	// AccountID is the ID of the new account. It is empty until the account exists.
	AccountID string `json:"account_id,omitempty"`
}

// Output is the output of an instance.
type Output struct {
	// Outcome is the final state.
	Outcome   string `json:"outcome"`
	AccountID string `json:"account_id,omitempty"`
}

type (
	state  = statechart.State[Context]
	on     = statechart.Transition[Context]
	after  = statechart.After[Context]
	invoke = statechart.Invoke[Context]
	do     = []statechart.Action[Context]
)

// New returns the chart. If the config is not valid, New panics, so the error appears before the first event.
func New(mailer Mailer, accounts Accounts, config Config) *statechart.Chart[Context] {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		panic(err)
	}
	settled := []string{statechart.Settled}

	return statechart.Must(statechart.Definition[Context]{
		ID: "signup", Version: 1, Initial: "new",
		Context: func(start statechart.Start) Context { return Context{Instance: start.Instance} },
		Payloads: statechart.Payloads{
			"SIGN_UP":        statechart.PayloadOf[SignUp](),
			"VERIFY":         statechart.PayloadOf[Verify](),
			"RESEND":         statechart.NoPayload(),
			"CHANGE_ADDRESS": statechart.PayloadOf[ChangeAddress](),
			"CANCEL":         statechart.NoPayload(),
		},
		States: []state{
			{ID: "new", Tags: settled, Doc: "no sign-up yet",
				On: []on{{Event: "SIGN_UP", Target: "unverified", Actions: do{keepUser}}}},

			{ID: "unverified", Initial: "registering", Doc: "the address is not verified",
				On:    []on{{Event: "CANCEL", Target: "cancelled"}},
				After: []after{{ID: "deadline", Delay: config.Deadline, Target: "expired"}},
				States: []state{
					{ID: "registering", Doc: "mails a code",
						Invoke: []invoke{{
							Service: sendVerification(mailer, config.CodeKey), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
							OnDone:  []on{{Target: "awaiting_verification", Actions: do{keepCodeHash}}},
							OnError: []on{{Target: "#mail_failed"}},
						}}},
					{ID: "awaiting_verification", Tags: settled, Doc: "waits for the code",
						On: []on{
							{Event: "VERIFY", Target: "#provisioning", Guard: rightCode(config.CodeKey)},
							{Event: "VERIFY", Target: "#locked", Guard: lastGuess(config.WrongCodesMax), Actions: do{countWrongCode}},
							{Event: "VERIFY", Actions: do{countWrongCode}},
							{Event: "RESEND", Target: "registering", Guard: resendsLeft(config.ResendsMax), Actions: do{countResend}},
							{Event: "CHANGE_ADDRESS", Target: "registering", Guard: addressChangesLeft(config.AddressChangesMax), Actions: do{changeAddress}},
						}},
				}},

			{ID: "provisioning", Doc: "creates the account",
				Invoke: []invoke{{
					Service: provisionAccount(accounts), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
					OnDone:  []on{{Target: "active", Actions: do{keepAccount}}},
					OnError: []on{{Target: "provisioning_failed"}},
				}}},

			final("active"),
			final("cancelled"),
			final("expired"),
			final("locked"), // too many wrong codes
			final("mail_failed", Failed),
			final("provisioning_failed", Failed),
		},
	})
}

var (
	keepUser       = statechart.Assign("keepUser", func(c *Context, e SignUp) { c.Name, c.Email = e.Name, e.Email })
	keepCodeHash   = statechart.Assign("keepCodeHash", func(c *Context, e sent) { c.CodeHash = e.CodeHash })
	keepAccount    = statechart.Assign("keepAccount", func(c *Context, e provisioned) { c.AccountID = e.AccountID })
	countWrongCode = statechart.Update("countWrongCode", func(c *Context) { c.WrongCodes++ })
	countResend    = statechart.Update("countResend", func(c *Context) { c.Resends++ })
	changeAddress  = statechart.Assign("changeAddress", func(c *Context, e ChangeAddress) { c.Email = e.Email; c.AddressChanges++ })
)

func rightCode(key []byte) statechart.Guard[Context] {
	return statechart.When("rightCode", func(c Context, e Verify) bool { return matchesHash(key, c.Instance, e.Code, c.CodeHash) })
}

func lastGuess(wrongCodesMax int) statechart.Guard[Context] {
	return statechart.If("lastGuess", func(c Context) bool { return c.WrongCodes+1 >= wrongCodesMax })
}

func resendsLeft(resendsMax int) statechart.Guard[Context] {
	return statechart.If("resendsLeft", func(c Context) bool { return c.Resends < resendsMax })
}

func addressChangesLeft(changesMax int) statechart.Guard[Context] {
	return statechart.If("addressChangesLeft", func(c Context) bool { return c.AddressChanges < changesMax })
}

// final returns a final state whose output has the state's name as outcome.
func final(outcome string, tags ...string) state {
	return state{ID: outcome, Type: statechart.Final, Tags: tags, Output: func(c Context, _ statechart.Event) any {
		return Output{Outcome: outcome, AccountID: c.AccountID}
	}}
}
