// Package apikey is the operator's own API keys: opaque texts, each of which stands
// for one Kubernetes user in one namespace.
//
// A key is "sk-ar-" and 32 random bytes in base64url. It is not kept anywhere; a
// Secret of type agentruntime.dev/api-key in the operator's namespace, named after the
// key's SHA-256, says whom it stands for. Deleting the Secret revokes the key, which
// ends within seconds (see Lookup).
package apikey
