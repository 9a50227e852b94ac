// Package keys is what `arctl apikey` does. An API key is a Secret in the
// operator's namespace that holds the key's hash, never the key, and the Kubernetes
// user whom the facade takes its bearer for.
package keys
