package awslocal

import "net"

// ServeOn is what Listen does with its listener.
func (c *Cloud) ServeOn(listener net.Listener) *Server { return c.serveOn(listener) }
