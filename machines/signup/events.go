package signup

import (
	"fmt"
	"net/mail"
	"strings"
)

// Limits of the user's input.
const (
	// NameBytesMax limits SignUp.Name.
	NameBytesMax = 200
	// EmailBytesMax limits addresses: an SMTP path has at most 256 bytes, including its angle brackets (RFC 5321,
	// 4.5.3.1.3).
	EmailBytesMax = 254
	// CodeBytesMax limits Verify.Code.
	CodeBytesMax = 128
)

// SignUp is the payload of SIGN_UP.
type SignUp struct {
	Email string `json:"email"`
	Name  string `json:"name"`
}

// Validate checks the address and the name.
func (s SignUp) Validate() error {
	if strings.TrimSpace(s.Name) == "" || len(s.Name) > NameBytesMax {
		return fmt.Errorf("expected a name of 1 to %d bytes, got %d", NameBytesMax, len(s.Name))
	}
	return validateEmail(s.Email)
}

// ChangeAddress is the payload of CHANGE_ADDRESS.
type ChangeAddress struct {
	Email string `json:"email"`
}

// Validate checks the address.
func (c ChangeAddress) Validate() error { return validateEmail(c.Email) }

// Verify is the payload of VERIFY.
type Verify struct {
	Code string `json:"code"`
}

// Validate checks that there is a code. The chart checks whether it is right.
func (v Verify) Validate() error {
	if v.Code == "" || len(v.Code) > CodeBytesMax {
		return fmt.Errorf("expected a code of 1 to %d bytes, got %d", CodeBytesMax, len(v.Code))
	}
	return nil
}

// validateEmail accepts a bare address, such as ada@example.com. Its errors do not repeat the
// address: they reach logs and the dead-letter queue.
func validateEmail(email string) error {
	if len(email) > EmailBytesMax {
		return fmt.Errorf("expected an email of at most %d bytes, got %d", EmailBytesMax, len(email))
	}
	address, err := mail.ParseAddress(email)
	if err != nil || address.Address != email {
		return fmt.Errorf("expected an email such as ada@example.com, got %d bytes of something else", len(email))
	}
	return nil
}
