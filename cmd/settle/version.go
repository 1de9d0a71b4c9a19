package main

import (
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

// Run prints the module's version and, if it was built from a checkout, the commit.
func (versionCommand) Run(s *session) error {
	version, commit := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				commit = ", commit " + setting.Value
			}
		}
	}
	return s.printf("settle %s%s, %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
