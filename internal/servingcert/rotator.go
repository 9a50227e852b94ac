// Package servingcert keeps the certificate of a server: it makes a certificate
// authority and a serving certificate in one named Secret, renews both in time,
// hands the serving certificate to the server from memory, and puts the authority
// where those look for it who call the server.
//
// It reads and writes its Secret, and the objects that get the authority, by name
// only and watches nothing, so that the operator needs no right to list Secrets.
// Any number of replicas may share the Secret.
package servingcert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keys of the Secret.
const (
	keyCACert = "ca.crt"
	keyCAKey  = "ca.key"
	keyCert   = corev1.TLSCertKey
	keyKey    = corev1.TLSPrivateKeyKey
)

const (
	// checkInterval is how often the Secret and what gets the authority are looked at.
	checkInterval = time.Minute
	// retryInterval is the wait after a check that failed.
	retryInterval = 2 * time.Second
)

// Rotator keeps one serving certificate.
type Rotator struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Secret names the Secret that holds the certificate. It must exist; it may
	// be empty.
	Secret types.NamespacedName
	// DNSNames are the names that the certificate is for.
	DNSNames []string
	// Publisher gets the authority with every check. It may be nil, where those who
	// call the server take the authority from the Secret.
	Publisher Publisher
	Clock     clock.WithTicker

	current atomic.Pointer[tls.Certificate]
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica
// serves, so every one needs the certificate.
func (r *Rotator) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it keeps the certificate until ctx ends.
func (r *Rotator) Start(ctx context.Context) error {
	logger := ctrl.LoggerFrom(ctx).WithName("servingcert")
	for {
		wait := checkInterval
		if err := r.Ensure(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "Could not bring the serving certificate up to date; trying again")
			wait = retryInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.Clock.After(wait):
		}
	}
}

// errNoCertificate says that a handshake came before the first check ended.
var errNoCertificate = errors.New("the serving certificate is not ready yet")

// GetCertificate hands the certificate to a tls.Config.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := r.current.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNoCertificate
}

// Ready is a health check: it fails until there is a certificate.
func (r *Rotator) Ready(*http.Request) error {
	if r.current.Load() == nil {
		return errNoCertificate
	}
	return nil
}

// Ensure makes one check: it renews what is due, loads the certificate, and
// publishes the authority. The order matters: a new authority is trusted beside
// the old one before a certificate of it is served.
func (r *Rotator) Ensure(ctx context.Context) error {
	var secret *corev1.Secret
	var pair *tls.Certificate
	// On a conflict another replica was first: its work is taken.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		secret, pair, err = r.load(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if r.Publisher != nil {
		err = r.Publisher.Publish(ctx, secret.Data[keyCACert])
	}
	// A certificate whose authority nobody may trust yet waits while there is another.
	if current := r.current.Load(); err == nil || current == nil || expired(current, r.Clock.Now()) {
		r.current.Store(pair)
	}
	return err
}

func expired(certificate *tls.Certificate, now time.Time) bool {
	return certificate.Leaf == nil || !now.Before(certificate.Leaf.NotAfter)
}

// load reads the certificate, after it renewed what is due.
func (r *Rotator) load(ctx context.Context) (*corev1.Secret, *tls.Certificate, error) {
	var secret corev1.Secret
	if err := r.Client.Get(ctx, r.Secret, &secret); err != nil {
		return nil, nil, fmt.Errorf("get the certificate's Secret %s: %w", r.Secret, err)
	}
	if pair, err := parse(secret.Data, r.DNSNames, r.Clock.Now()); err == nil {
		return &secret, pair, nil
	}
	data, err := renew(secret.Data, r.DNSNames, r.Clock.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("issue the certificate of Secret %s: %w", r.Secret, err)
	}
	secret.Data = data
	if err := r.Client.Update(ctx, &secret); err != nil {
		return nil, nil, fmt.Errorf("update the certificate's Secret %s: %w", r.Secret, err)
	}
	pair, err := parse(secret.Data, r.DNSNames, r.Clock.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("use the new certificate of Secret %s: %w", r.Secret, err)
	}
	return &secret, pair, nil
}
