//go:build race

package stack

// raceFlags have the programs watched for data races where the suite itself is.
func raceFlags() []string { return []string{"-race"} }
