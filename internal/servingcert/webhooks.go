package servingcert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WebhookConfigurations publish the authority to the API server as the one that
// admission webhooks are called under. Both configurations must exist.
type WebhookConfigurations struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Name is the name of the mutating and of the validating configuration.
	Name string
}

// Publish implements Publisher.
func (w WebhookConfigurations) Publish(ctx context.Context, bundle []byte) error {
	if err := errors.Join(w.publishMutating(ctx, bundle), w.publishValidating(ctx, bundle)); err != nil {
		return fmt.Errorf("put the authority into the webhook configurations %q: %w", w.Name, err)
	}
	return nil
}

func (w WebhookConfigurations) publishMutating(ctx context.Context, bundle []byte) error {
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	if err := w.Client.Get(ctx, types.NamespacedName{Name: w.Name}, &configuration); err != nil {
		return err
	}
	var stale []string
	for _, webhook := range configuration.Webhooks {
		if !bytes.Equal(webhook.ClientConfig.CABundle, bundle) {
			stale = append(stale, webhook.Name)
		}
	}
	return w.patch(ctx, &configuration, stale, bundle)
}

func (w WebhookConfigurations) publishValidating(ctx context.Context, bundle []byte) error {
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := w.Client.Get(ctx, types.NamespacedName{Name: w.Name}, &configuration); err != nil {
		return err
	}
	var stale []string
	for _, webhook := range configuration.Webhooks {
		if !bytes.Equal(webhook.ClientConfig.CABundle, bundle) {
			stale = append(stale, webhook.Name)
		}
	}
	return w.patch(ctx, &configuration, stale, bundle)
}

// patch gives the named webhooks the bundle and changes nothing else of them.
func (w WebhookConfigurations) patch(ctx context.Context, configuration client.Object, webhooks []string, bundle []byte) error {
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
	return ignoreConflict(w.Client.Patch(ctx, configuration, client.RawPatch(types.StrategicMergePatchType, patch)))
}

// ignoreConflict leaves to the next check what somebody else is changing now.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
