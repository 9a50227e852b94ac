// Package servingcert keeps the certificate of the admission webhooks: it makes a
// certificate authority and a serving certificate in one named Secret, renews
// both in time, hands the serving certificate to the webhook server from memory,
// and puts the authority where the API server looks for it.
//
// It reads and writes its Secret and the two webhook configurations by name only
// and watches nothing, so that the operator needs no right to list Secrets. Any
// number of managers may share the Secret.
package servingcert

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
	// checkInterval is how often the Secret and the configurations are looked at.
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
	// Configuration is the name of the mutating and of the validating webhook
	// configuration that get the authority.
	Configuration string
	Clock         clock.WithTicker

	current atomic.Pointer[tls.Certificate]
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every manager
// serves admission, so every one needs the certificate.
func (r *Rotator) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it keeps the certificate until ctx ends.
func (r *Rotator) Start(ctx context.Context) error {
	logger := ctrl.LoggerFrom(ctx).WithName("servingcert")
	for {
		wait := checkInterval
		if err := r.Ensure(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "Could not bring the webhook certificate up to date; trying again")
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

// Ensure makes one check: it renews what is due, loads the certificate, and puts
// the authority into the webhook configurations. The order matters: a new
// authority is trusted beside the old one before a certificate of it is served.
func (r *Rotator) Ensure(ctx context.Context) error {
	var secret corev1.Secret
	if err := r.Client.Get(ctx, r.Secret, &secret); err != nil {
		return fmt.Errorf("get the certificate's Secret %s: %w", r.Secret, err)
	}
	pair, err := parse(secret.Data, r.DNSNames, r.Clock.Now())
	if err != nil {
		data, issueErr := renew(secret.Data, r.DNSNames, r.Clock.Now())
		if issueErr != nil {
			return fmt.Errorf("issue the webhook certificate: %w", issueErr)
		}
		secret.Data = data
		if err := r.Client.Update(ctx, &secret); err != nil {
			// On a conflict another manager was first; the next check takes its work.
			return fmt.Errorf("update the certificate's Secret %s: %w", r.Secret, err)
		}
		if pair, err = parse(secret.Data, r.DNSNames, r.Clock.Now()); err != nil {
			return fmt.Errorf("use the new webhook certificate: %w", err)
		}
	}
	injected := r.inject(ctx, secret.Data[keyCACert])
	r.current.Store(pair)
	return injected
}

// inject puts the authority into both configurations, where it is not yet.
func (r *Rotator) inject(ctx context.Context, bundle []byte) error {
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	key := types.NamespacedName{Name: r.Configuration}
	errMutating := r.Client.Get(ctx, key, &mutating)
	if errMutating == nil {
		names := []string{}
		for _, webhook := range mutating.Webhooks {
			if string(webhook.ClientConfig.CABundle) != string(bundle) {
				names = append(names, webhook.Name)
			}
		}
		errMutating = r.patch(ctx, &mutating, names, bundle)
	}
	errValidating := r.Client.Get(ctx, key, &validating)
	if errValidating == nil {
		names := []string{}
		for _, webhook := range validating.Webhooks {
			if string(webhook.ClientConfig.CABundle) != string(bundle) {
				names = append(names, webhook.Name)
			}
		}
		errValidating = r.patch(ctx, &validating, names, bundle)
	}
	if err := errors.Join(errMutating, errValidating); err != nil {
		return fmt.Errorf("put the authority into the webhook configurations %q: %w", r.Configuration, err)
	}
	return nil
}

func (r *Rotator) patch(ctx context.Context, configuration client.Object, webhooks []string, bundle []byte) error {
	if len(webhooks) == 0 {
		return nil
	}
	list := make([]map[string]any, 0, len(webhooks))
	for _, name := range webhooks {
		list = append(list, map[string]any{"name": name, "clientConfig": map[string]any{"caBundle": bundle}})
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": configuration.GetResourceVersion()},
		"webhooks": list,
	})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, configuration, client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsConflict(err) {
		// Somebody else changed it; the next check looks again.
		return nil
	}
	return err
}
