// Package reserved contains the IDs that no machine may have. Stores use them as prefixes of the keys of items that are
// not instances.
package reserved

// The reserved IDs.
const (
	// Alias is the key prefix of the items that map aliases to instances.
	Alias = "alias"
	// Idempotency is the key prefix of the items that reserve event IDs.
	Idempotency = "idempotency"
	// Limits is the key prefix of the items that hold the states of limits.
	Limits = "limits"
	// Sends is the key prefix of the items that hold a sender's last send when it does not fit into the receiver's
	// record.
	Sends = "sends"
)
