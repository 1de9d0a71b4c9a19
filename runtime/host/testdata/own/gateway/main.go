// Command gateway is the API of this module's machines.
package main

import (
	"github.com/settle-run/settle/runtime/host"

	"example.com/orders/order"
)

func main() { host.Main(host.Gateway(order.Machines, nil)) }
