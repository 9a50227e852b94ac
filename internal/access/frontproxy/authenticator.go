package frontproxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

// Where the API server says how its aggregator shows itself. The role
// extension-apiserver-authentication-reader of that namespace lets one read it.
const (
	configNamespace = "kube-system"
	configName      = "extension-apiserver-authentication"

	keyCA       = "requestheader-client-ca-file"
	keyUsername = "requestheader-username-headers"
	keyUID      = "requestheader-uid-headers"
	keyGroup    = "requestheader-group-headers"
	keyExtra    = "requestheader-extra-headers-prefix"
	keyAllowed  = "requestheader-allowed-names"
)

// Authenticator says who sent a request that came through the aggregator. It knows
// nobody until Run has read the API server's ConfigMap.
type Authenticator struct {
	ca                *dynamiccertificates.ConfigMapCAController
	headers           *headerrequest.RequestHeaderAuthRequestController
	verify            authenticator.Request
	operatorNamespace string
}

// New returns an Authenticator that reads the ConfigMap with the client. The
// operator's own ServiceAccounts, in its namespace, are refused.
func New(client kubernetes.Interface, operatorNamespace string) (*Authenticator, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxy", configNamespace, configName, keyCA, client)
	if err != nil {
		return nil, fmt.Errorf("follow the front proxy's CA: %w", err)
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(configName, configNamespace, client,
		keyUsername, keyUID, keyGroup, keyExtra, keyAllowed)
	return &Authenticator{
		ca:                ca,
		headers:           headers,
		operatorNamespace: operatorNamespace,
		verify: headerrequest.NewDynamicVerifyOptionsSecure(ca.VerifyOptions,
			headerrequest.StringSliceProviderFunc(headers.AllowedClientNames),
			headerrequest.StringSliceProviderFunc(headers.UsernameHeaders),
			headerrequest.StringSliceProviderFunc(headers.UIDHeaders),
			headerrequest.StringSliceProviderFunc(headers.GroupHeaders),
			headerrequest.StringSliceProviderFunc(headers.ExtraHeaderPrefixes)),
	}, nil
}

// Run follows the ConfigMap until the context ends. It is called once.
func (a *Authenticator) Run(ctx context.Context) error {
	var followers sync.WaitGroup
	followers.Go(func() { a.ca.Run(ctx, 1) })
	followers.Go(func() { a.headers.Run(ctx, 1) })
	followers.Wait()
	return nil
}

// Ready returns nil once the CA and the names of the headers are known, and else what
// is missing.
func (a *Authenticator) Ready() error {
	if _, ok := a.ca.VerifyOptions(); !ok {
		return fmt.Errorf("ConfigMap %s/%s has shown no %s yet: the API server needs the flag --requestheader-client-ca-file",
			configNamespace, configName, keyCA)
	}
	if len(a.headers.UsernameHeaders()) == 0 {
		return fmt.Errorf("ConfigMap %s/%s has shown no %s yet", configNamespace, configName, keyUsername)
	}
	return nil
}

// ClientCAs returns the CAs that may have signed the aggregator's certificate, and
// false while they are not known. A server that asks for certificates may name them;
// it need not verify any.
func (a *Authenticator) ClientCAs() (*x509.CertPool, bool) {
	options, ok := a.ca.VerifyOptions()
	return options.Roots, ok
}

// Authenticate returns the caller whom the aggregator names. The error is an
// *access.UnauthenticatedError unless the connection has the aggregator's certificate
// and the request names a user, an *access.ForbiddenError for one who is never served
// (see access.Refused), and an *access.UnavailableError until Ready. The request is
// left as it is, so it may be authenticated again.
func (a *Authenticator) Authenticate(r *http.Request) (access.Caller, error) {
	// Without this the list of allowed names could be taken for empty, which allows
	// every name, between the arrival of the CA and that of the list.
	if err := a.Ready(); err != nil {
		return access.Caller{}, &access.UnavailableError{Action: "authenticate the front proxy", Err: err}
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return access.Caller{}, &access.UnauthenticatedError{
			Reason:  access.ReasonMissing,
			Message: "these paths are for the Kubernetes API server's aggregator: come through the API server",
		}
	}
	// The verifier takes the headers that it believed out of the request.
	copied := r.WithContext(r.Context())
	copied.Header = r.Header.Clone()
	answer, ok, err := a.verify.AuthenticateRequest(copied)
	if err != nil {
		return access.Caller{}, untrusted(err)
	}
	if !ok {
		return access.Caller{}, untrusted(errors.New("no user is named"))
	}
	who := requesterOf(answer.User)
	if err := access.Refused(who, a.operatorNamespace); err != nil {
		return access.Caller{}, err
	}
	return access.Caller{User: who, Method: access.MethodFrontProxy}, nil
}

func untrusted(cause error) error {
	return &access.UnauthenticatedError{
		Reason:  access.ReasonInvalid,
		Message: "the client certificate is not that of the Kubernetes API server's aggregator, or names no user",
		Cause:   cause,
	}
}

func requesterOf(info user.Info) v1alpha1.Requester {
	who := v1alpha1.Requester{
		Username: info.GetName(), UID: info.GetUID(), Groups: access.Authenticated(info.GetGroups()),
	}
	if extra := info.GetExtra(); len(extra) > 0 {
		who.Extra = make(map[string]v1alpha1.ExtraValue, len(extra))
		for key, values := range extra {
			who.Extra[key] = v1alpha1.ExtraValue(values)
		}
	}
	return who
}
