package access

import (
	"net/http"
	"strings"
)

// APIKeyPrefix begins every API key that the operator hands out, and no token of
// Kubernetes.
const APIKeyPrefix = "sk-ar-"

// MaxCredentialBytes bounds a credential.
const MaxCredentialBytes = 16 << 10

const (
	headerAPIKey        = "X-Api-Key"
	headerAuthorization = "Authorization"
	schemeBearer        = "bearer"
	schemeBasic         = "basic"
)

// CredentialOf returns the credential of a request (compile-api.md, A.5): what
// X-API-Key holds, and only when there is no such header, what "Authorization: Bearer"
// does. A header that is there but no good is never passed over for the other one.
// Every failure is an *UnauthenticatedError.
func CredentialOf(header http.Header) (Secret, error) {
	if values, ok := header[headerAPIKey]; ok {
		return credential("X-API-Key", values)
	}
	values, ok := header[headerAuthorization]
	if !ok {
		return "", &UnauthenticatedError{
			Reason:  ReasonMissing,
			Message: "no credential: send a Kubernetes token or an API key as X-API-Key or as Authorization: Bearer",
		}
	}
	if len(values) != 1 {
		return "", malformed("the Authorization header must be there once")
	}
	scheme, rest, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	switch strings.ToLower(scheme) {
	case schemeBearer:
		return credential("Authorization: Bearer", []string{rest})
	case schemeBasic:
		return "", malformed("Basic authentication is not supported: send a Kubernetes token or an API key as X-API-Key or as Authorization: Bearer")
	}
	return "", malformed("the Authorization header must have the scheme Bearer")
}

func credential(name string, values []string) (Secret, error) {
	if len(values) != 1 {
		return "", malformed("the " + name + " header must be there once")
	}
	value := strings.TrimSpace(values[0])
	switch {
	case value == "":
		return "", malformed("the " + name + " header is empty")
	case len(value) > MaxCredentialBytes:
		return "", malformed("the credential in " + name + " is longer than 16 KiB")
	case strings.ContainsFunc(value, unfit):
		return "", malformed("the credential in " + name + " has spaces or characters that no credential has")
	}
	return Secret(value), nil
}

// unfit tells what is neither in an API key nor in a token. A space counts: the API
// server takes a token for what stands before it.
func unfit(r rune) bool { return r <= ' ' || r > '~' }

func malformed(message string) error {
	return &UnauthenticatedError{Reason: ReasonInvalid, Message: message}
}
