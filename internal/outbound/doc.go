// Package outbound is how the HTTP servers are called that cluster admins configure:
// executors and content stores. It checks their URLs and certificates, bounds the
// connections to them, follows no redirect, and says in a few words that hold no
// address why a call got no answer.
package outbound
