package awslocal

import "net"

// ServeOn serves the Cloud on an existing listener.
func (c *Cloud) ServeOn(listener net.Listener) *Server { return c.serveOn(listener) }
