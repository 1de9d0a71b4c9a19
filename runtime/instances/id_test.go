package instances_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/instances"
)

func TestAnIDIsWhatSQSTakesAsAGroup(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"signup/42", "a/b", "job/run-1_job:2#3", "job/" + strings.Repeat("1", 124)} {
		if id, err := instances.ParseID(text); err != nil || id.String() != text {
			t.Errorf("ParseID(%q) = %v, %v", text, id, err)
		}
	}
	for _, text := range []string{"", "/", "signup", "signup/", "/42", "a/b/c", "a/b c", "a/é", "a/\x7f", "job/" + strings.Repeat("1", 125)} {
		if id, err := instances.ParseID(text); !errors.Is(err, instances.ErrID) || id != (instances.ID{}) {
			t.Errorf("ParseID(%q) = %v, %v, want ErrID", text, id, err)
		}
	}
}
