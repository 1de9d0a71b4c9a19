// Package reserved contains the IDs that no machine may have. Stores keep items under them that are not instances.
package reserved

// The reserved IDs.
const (
	// Alias begins the keys of aliases.
	Alias = "alias"
	// Idempotency begins the keys of event IDs that callers have used.
	Idempotency = "idempotency"
	// Sends begins the keys of last sends that do not fit into a record.
	Sends = "sends"
)
