package command

import (
	"runtime"
	"runtime/debug"
)

// settleModule is the path of this module. A command built for other machines depends on this module.
const settleModule = "github.com/settle-run/settle"

type versionCommand struct{}

// Run prints the module's version and, if it was built from a checkout, the commit.
func (versionCommand) Run(s *session) error {
	version, commit := buildVersion()
	return s.printf("%s %s%s, %s %s/%s\n", s.name(), version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion returns the module's version, and ", commit " with the commit if it was built from a checkout.
func buildVersion() (version, commit string) {
	version = "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, dependency := range info.Deps {
			if dependency.Path == settleModule {
				version += ", with Settle " + dependency.Version
			}
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				commit = ", commit " + setting.Value
			}
		}
	}
	return version, commit
}
