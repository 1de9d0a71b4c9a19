// Package signup registers a user: it mails a code, waits for the user to send it back, and
// then makes the account.
//
// # What holds
//
// Only the code of the mail that was sent last is accepted. RESEND and CHANGE_ADDRESS send
// another mail; the code before it is void from then on.
//
// Wrong codes are counted over the whole sign-up. Neither a new code nor a new address gives
// further guesses: the fifth wrong code ends the sign-up.
//
// The user has 24 hours from SIGN_UP. The deadline belongs to the state around the waiting, so
// no mail prolongs it. A user whose code was accepted is not held to it while the account is
// being made.
//
// RESEND and CHANGE_ADDRESS are ignored once their limit is reached; the code that was sent
// last goes on to be accepted.
//
// A mail that cannot be sent ends the sign-up, also when it is not the first: the code before
// it is void by then.
//
// The context holds no code, only a hash of it: see [Config.CodeKey].
package signup

import (
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the final states in which a service failed for good: the user did
// nothing wrong.
const Failed = "failed"

// Retention is how long an instance, and with it the user's name and address, is kept once the
// sign-up is over.
const Retention = 15 * 24 * time.Hour

// StartedBy names the event that makes an instance.
var StartedBy = []string{"SIGN_UP"}

// Context is what an instance knows.
type Context struct {
	// Instance salts CodeHash.
	Instance string `json:"instance"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	// CodeHash is the hash of the code that was mailed last, see hashCode.
	CodeHash string `json:"code_hash,omitempty"`
	// Invariant: WrongCodes <= Config.WrongCodesMax.
	WrongCodes int `json:"wrong_codes"`
	// Invariant: Resends <= Config.ResendsMax.
	Resends int `json:"resends"`
	// Invariant: AddressChanges <= Config.AddressChangesMax.
	AddressChanges int `json:"address_changes"`
	// AccountID is the new account's, empty until there is one.
	AccountID string `json:"account_id,omitempty"`
}

// Output is what an instance ends with.
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

// New returns the chart. It panics if the config is not valid, before the first event.
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
			{ID: "new", Tags: settled, Doc: "nobody signed up",
				On: []on{{Event: "SIGN_UP", Target: "unverified", Actions: do{keepUser}}}},

			{ID: "unverified", Initial: "registering", Doc: "the address is not known to be the user's",
				On:    []on{{Event: "CANCEL", Target: "cancelled"}},
				After: []after{{ID: "deadline", Delay: config.Deadline, Target: "expired"}},
				States: []state{
					{ID: "registering", Doc: "a code is being mailed",
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

			{ID: "provisioning", Doc: "the account is being made",
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

// final returns a final state whose output is named after it.
func final(outcome string, tags ...string) state {
	return state{ID: outcome, Type: statechart.Final, Tags: tags, Output: func(c Context, _ statechart.Event) any {
		return Output{Outcome: outcome, AccountID: c.AccountID}
	}}
}
