// Command consumer hosts this module's machines.
package main

import (
	"github.com/settle-run/settle/runtime/host"

	"example.com/orders/order"
)

func main() { host.Main(host.Consumer(order.Machines)) }
