package gateway

// RoutePatterns returns the patterns of the API's routes.
func RoutePatterns() (patterns []string) {
	for _, r := range apiRoutes {
		patterns = append(patterns, r.pattern())
	}
	return patterns
}
