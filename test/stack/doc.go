// Package stack runs the whole operator on this machine, without a cluster: etcd
// and an API server with the aggregator's flags, config/default as it ships, the
// manager, the facade and the built-in executor as processes with the rights of
// their own ServiceAccounts. Everything listens on loopback and ends with Stop.
//
// The demo and the suites that need everything at once use it.
package stack
