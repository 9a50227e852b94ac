package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/agentruntime/operator/internal/runtime/session"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// principal is the user of a request (A.6).
type principal struct {
	account string
	user    string
	// scope is their hash, which is all that is stored.
	scope string
}

func newPrincipal(account, user string) principal {
	return principal{account: account, user: user, scope: session.Scope(account, user)}
}

// maxCredentialBytes bounds a credential; Kubernetes tokens are far shorter.
const maxCredentialBytes = 16 << 10

// keyUserDigits is how much of a key's hash makes its user id.
const keyUserDigits = 32

// serviceAccountPrefix begins the user name of a ServiceAccount, which goes on
// with "<namespace>:<name>".
const serviceAccountPrefix = "system:serviceaccount:"

// identifier finds out whose request it is; package server's doc has the rules.
type identifier struct {
	tokens         TokenVerifier
	defaultAccount string
	log            *slog.Logger
}

func (i *identifier) identify(r *http.Request) (principal, error) {
	account, user, err := trustedIdentity(r)
	if err != nil || user != "" {
		return newPrincipal(account, user), err
	}
	credential, err := credentialOf(r.Header)
	if err != nil {
		return principal{}, err
	}
	if i.tokens == nil {
		return newPrincipal(first(account, i.defaultAccount), keyUser(credential)), nil
	}
	name, err := i.username(r.Context(), credential)
	if err != nil {
		return principal{}, err
	}
	account = first(account, serviceAccountNamespace(name), i.defaultAccount)
	return newPrincipal(account, viking.UserID(name)), nil
}

func (i *identifier) username(ctx context.Context, token string) (string, error) {
	name, err := i.tokens.Verify(ctx, token)
	switch {
	case errors.Is(err, ErrBadToken):
		return "", refuse(runtimeapi.CodeUnauthenticated, "The credential is not valid.")
	case err != nil:
		// The error comes from the API server and holds no token.
		i.log.Error("Token can't be reviewed", "err", err)
		return "", refuse(runtimeapi.CodeUnavailable, "The credential can't be checked now.")
	}
	return name, nil
}

// trustedIdentity reads the identity headers of a caller that may set them.
// user is empty when it named none; account may stand alone.
func trustedIdentity(r *http.Request) (account, user string, err error) {
	if !headersTrusted(r.Context()) {
		return "", "", nil
	}
	account = r.Header.Get(runtimeapi.HeaderAccount)
	user = r.Header.Get(runtimeapi.HeaderUser)
	switch {
	case account != "" && !ValidAccount(account):
		return "", "", refuse(runtimeapi.CodeInvalidArgument,
			runtimeapi.HeaderAccount+" must be a DNS label of at most 63 characters.")
	case user != "" && account == "":
		return "", "", refuse(runtimeapi.CodeInvalidArgument,
			runtimeapi.HeaderUser+" needs "+runtimeapi.HeaderAccount+" beside it.")
	case user != "" && (len(user) > viking.MaxUserIDBytes || !viking.ValidID(user)):
		return "", "", refuse(runtimeapi.CodeInvalidArgument, runtimeapi.HeaderUser+" must be a viking user id.")
	}
	return account, user, nil
}

// credentialOf reads X-API-Key, else a bearer token (A.5).
func credentialOf(h http.Header) (string, error) {
	credential := h.Get(runtimeapi.HeaderAPIKey)
	if credential == "" {
		scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
		if strings.EqualFold(scheme, "Bearer") {
			credential = strings.TrimSpace(token)
		}
	}
	if credential == "" || len(credential) > maxCredentialBytes {
		return "", refuse(runtimeapi.CodeUnauthenticated, "A credential is required.")
	}
	return credential, nil
}

// keyUser names the holder of an opaque key (H.7, Q18).
func keyUser(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key-" + hex.EncodeToString(sum[:])[:keyUserDigits]
}

func serviceAccountNamespace(username string) string {
	rest, ok := strings.CutPrefix(username, serviceAccountPrefix)
	if !ok {
		return ""
	}
	namespace, _, ok := strings.Cut(rest, ":")
	if !ok || !ValidAccount(namespace) {
		return ""
	}
	return namespace
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
