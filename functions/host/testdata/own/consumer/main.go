// Command consumer hosts this module's machines.
package main

import (
	"github.com/settle-run/settle/functions/host"

	"example.com/orders/order"
)

func main() { host.Consumer(order.Machines) }
