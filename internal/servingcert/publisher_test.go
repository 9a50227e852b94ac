package servingcert

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const (
	apiServiceName    = "v1.things.example.test"
	configurationName = "hooks"
)

var (
	secretKey = types.NamespacedName{Namespace: "operator", Name: "certificate"}
	oldBundle = []byte("old bundle")
	newBundle = []byte("new bundle")
)

func newAPIService(bundle []byte) *unstructured.Unstructured {
	spec := map[string]any{
		"group": "things.example.test", "version": "v1",
		"service": map[string]any{"namespace": "operator", "name": "things"},
	}
	if bundle != nil {
		spec["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
	}
	service := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	service.SetName(apiServiceName)
	return service
}

func newConfigurations(bundles ...[]byte) []client.Object {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationName}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationName}}
	service := &admissionregistrationv1.ServiceReference{Namespace: "operator", Name: "hooks"}
	for i, bundle := range bundles {
		name := string(rune('a'+i)) + ".example.test"
		config := admissionregistrationv1.WebhookClientConfig{Service: service, CABundle: bundle}
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{Name: name, ClientConfig: config})
		validating.Webhooks = append(validating.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: name, ClientConfig: config})
	}
	return []client.Object{mutating, validating}
}

// cluster is a fake client that counts its patches and fails them as asked.
type cluster struct {
	client.Client
	patches  int
	patchErr error
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, inner client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			c.patches++
			if c.patchErr != nil {
				return c.patchErr
			}
			return inner.Patch(ctx, object, patch, options...)
		},
	}).Build()
	return c
}

// apiService reads the APIService back.
func (c *cluster) apiService(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	service := newAPIService(nil)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil {
		t.Fatal(err)
	}
	return service
}

// webhooks reads the client configurations of all webhooks back.
func (c *cluster) webhooks(t *testing.T) []admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	key := types.NamespacedName{Name: configurationName}
	if err := errors.Join(c.Get(t.Context(), key, &mutating), c.Get(t.Context(), key, &validating)); err != nil {
		t.Fatal(err)
	}
	var configs []admissionregistrationv1.WebhookClientConfig
	for _, webhook := range mutating.Webhooks {
		configs = append(configs, webhook.ClientConfig)
	}
	for _, webhook := range validating.Webhooks {
		configs = append(configs, webhook.ClientConfig)
	}
	return configs
}

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "thing", errors.New("changed"))
}

func TestAPIServicePublish(t *testing.T) {
	tests := map[string]struct {
		objects     []client.Object
		patchErr    error
		wantBundle  []byte
		wantPatches int
		wantErr     string
	}{
		"an APIService without an authority gets it": {
			objects: []client.Object{newAPIService(nil)}, wantBundle: newBundle, wantPatches: 1,
		},
		"an older authority is replaced": {
			objects: []client.Object{newAPIService(oldBundle)}, wantBundle: newBundle, wantPatches: 1,
		},
		"nothing is written where it stands already": {
			objects: []client.Object{newAPIService(newBundle)}, wantBundle: newBundle,
		},
		"an APIService that is not installed is no error": {},
		"one that somebody else is changing is left to the next check": {
			objects: []client.Object{newAPIService(oldBundle)}, patchErr: conflict(), wantBundle: oldBundle, wantPatches: 1,
		},
		"one that is deleted meanwhile is no error": {
			objects:  []client.Object{newAPIService(oldBundle)},
			patchErr: apierrors.NewNotFound(schema.GroupResource{}, apiServiceName), wantBundle: oldBundle, wantPatches: 1,
		},
		"a refusal names the APIService": {
			objects:  []client.Object{newAPIService(oldBundle)},
			patchErr: errors.New("refused"), wantBundle: oldBundle, wantPatches: 1,
			wantErr: "put the authority into APIService " + apiServiceName + ": refused",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, test.objects...)
			c.patchErr = test.patchErr
			err := APIService{Client: c, Name: apiServiceName}.Publish(t.Context(), newBundle)
			if (err == nil) != (test.wantErr == "") || err != nil && err.Error() != test.wantErr {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
			if c.patches != test.wantPatches {
				t.Errorf("wrote %d times, want %d", c.patches, test.wantPatches)
			}
			if test.objects == nil {
				return
			}
			if diff := cmp.Diff(newAPIService(test.wantBundle).Object["spec"], c.apiService(t).Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWebhookConfigurationsPublish(t *testing.T) {
	tests := map[string]struct {
		bundles     [][]byte
		patchErr    error
		wantBundle  []byte
		wantPatches int
	}{
		"all webhooks of both configurations get it":     {bundles: [][]byte{nil, oldBundle}, wantBundle: newBundle, wantPatches: 2},
		"the one that lacks it gets it":                  {bundles: [][]byte{newBundle, oldBundle}, wantBundle: newBundle, wantPatches: 2},
		"nothing is written where it stands":             {bundles: [][]byte{newBundle, newBundle}, wantBundle: newBundle},
		"what somebody else is changing is left for now": {bundles: [][]byte{oldBundle}, patchErr: conflict(), wantBundle: oldBundle, wantPatches: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, newConfigurations(test.bundles...)...)
			c.patchErr = test.patchErr
			if err := (WebhookConfigurations{Client: c, Name: configurationName}).Publish(t.Context(), newBundle); err != nil {
				t.Fatalf("publish: %v", err)
			}
			if c.patches != test.wantPatches {
				t.Errorf("wrote %d times, want %d", c.patches, test.wantPatches)
			}
			for _, config := range c.webhooks(t) {
				if string(config.CABundle) != string(test.wantBundle) {
					t.Errorf("a webhook has %q, want %q", config.CABundle, test.wantBundle)
				}
				if config.Service == nil || config.Service.Name != "hooks" {
					t.Errorf("the patch changed where a webhook leads: %v", config.Service)
				}
			}
		})
	}
	t.Run("a missing configuration is an error, and the other one gets it all the same", func(t *testing.T) {
		c := newCluster(t, newConfigurations(oldBundle)[1])
		err := WebhookConfigurations{Client: c, Name: configurationName}.Publish(t.Context(), newBundle)
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `"`+configurationName+`"`) {
			t.Errorf("got error %v", err)
		}
		if c.patches != 1 {
			t.Errorf("wrote %d times, want once", c.patches)
		}
	})
}

func newRotator(c client.Client, publisher Publisher) *Rotator {
	return &Rotator{
		Client: c, Secret: secretKey, DNSNames: names, Publisher: publisher, Clock: testingclock.NewFakeClock(begin),
	}
}

func emptySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}}
}

// ensured makes a check and returns what is served and what the Secret holds.
func ensured(t *testing.T, r *Rotator) (served []byte, secret map[string][]byte) {
	t.Helper()
	if err := r.Ensure(t.Context()); err != nil {
		t.Fatalf("ensure: %v", err)
	}
	certificate, err := r.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	var stored corev1.Secret
	if err := r.Client.Get(t.Context(), secretKey, &stored); err != nil {
		t.Fatal(err)
	}
	return certificate.Certificate[0], stored.Data
}

func TestEnsure(t *testing.T) {
	t.Run("an APIService gets the authority that the Secret holds", func(t *testing.T) {
		c := newCluster(t, emptySecret(), newAPIService(nil))
		r := newRotator(c, APIService{Client: c, Name: apiServiceName})
		_, secret := ensured(t, r)
		want := newAPIService(secret[keyCACert]).Object["spec"]
		if diff := cmp.Diff(want, c.apiService(t).Object["spec"]); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
		if err := r.Ready(nil); err != nil {
			t.Errorf("not ready: %v", err)
		}
	})
	t.Run("without a publisher the Secret alone is written", func(t *testing.T) {
		c := newCluster(t, emptySecret())
		ensured(t, newRotator(c, nil))
		if c.patches != 0 {
			t.Errorf("wrote %d times elsewhere", c.patches)
		}
	})
	t.Run("two replicas that find the Secret empty serve the same certificate", func(t *testing.T) {
		c := newCluster(t, emptySecret())
		late := &lateReader{Client: c, beforeUpdate: func() { ensured(t, newRotator(c, nil)) }}
		served, _ := ensured(t, newRotator(late, nil))
		again, _ := ensured(t, newRotator(c, nil))
		if diff := cmp.Diff(again, served); diff != "" {
			t.Errorf("the second replica serves another one (-first +second):\n%s", diff)
		}
	})
	t.Run("a certificate is served though its authority could not be published", func(t *testing.T) {
		c := newCluster(t, emptySecret(), newAPIService(nil))
		c.patchErr = errors.New("refused")
		r := newRotator(c, APIService{Client: c, Name: apiServiceName})
		if err := r.Ensure(t.Context()); !errors.Is(err, c.patchErr) {
			t.Errorf("got error %v, want the refusal", err)
		}
		if err := r.Ready(nil); err != nil {
			t.Errorf("not ready: %v", err)
		}
	})
}

// lateReader lets another replica in between its first read and its first update.
type lateReader struct {
	client.Client
	beforeUpdate func()
}

// Update implements client.Client.
func (l *lateReader) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if before := l.beforeUpdate; before != nil {
		l.beforeUpdate = nil
		before()
	}
	return l.Client.Update(ctx, object, options...)
}

// refusing is a Publisher that fails while it is told to.
type refusing struct{ err error }

// Publish implements Publisher.
func (r *refusing) Publish(context.Context, []byte) error { return r.err }

func TestNoCertificateIsServedWhoseAuthorityIsNotPublished(t *testing.T) {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = secretKey.Namespace, secretKey.Name
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(secret).Build()
	publisher, clock := &refusing{}, testingclock.NewFakeClock(begin)
	r := &Rotator{Client: c, Secret: secretKey, DNSNames: names, Publisher: publisher, Clock: clock}
	served := func() string {
		t.Helper()
		pair, err := r.GetCertificate(nil)
		if err != nil {
			t.Fatalf("GetCertificate: %v", err)
		}
		return pair.Leaf.SerialNumber.String()
	}
	publisher.err = errors.New("refused")
	if err := r.Ensure(t.Context()); err == nil {
		t.Error("a publisher's error is lost")
	}
	first := served() // Where there is no other, one is better than none.
	clock.SetTime(begin.Add(servingLifetime * 7 / 10))
	if err := r.Ensure(t.Context()); err == nil || served() != first {
		t.Errorf("the renewed certificate is served before its authority is trusted (%v)", err)
	}
	publisher.err = nil
	if err := r.Ensure(t.Context()); err != nil || served() == first {
		t.Errorf("the renewed certificate is not served once it may be (%v)", err)
	}
	renewed := served()
	publisher.err = errors.New("refused")
	clock.SetTime(begin.Add(servingLifetime * 3))
	if err := r.Ensure(t.Context()); err == nil || served() == renewed {
		t.Errorf("a certificate that has run out is still served (%v)", err)
	}
}
