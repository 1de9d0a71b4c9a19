//go:build !linux && !darwin

package awslocal_test

// limitFiles does nothing on systems without a limit on file sizes. No test uses it there.
func limitFiles(string) error { return nil }
