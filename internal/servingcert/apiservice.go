package servingcert

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// APIService publishes the authority to the API server as the one that an
// aggregated API is called under. An APIService that does not exist needs none, so
// that is no error: it gets the authority with the next check after it was made.
type APIService struct {
	// Client reads and writes without a cache. Its scheme needs no APIService.
	Client client.Client
	// Name is the APIService's, "<version>.<group>".
	Name string
}

// Publish implements Publisher.
func (a APIService) Publish(ctx context.Context, bundle []byte) error {
	// Two fields are all it is about: the type is not worth its module.
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	err := a.Client.Get(ctx, types.NamespacedName{Name: a.Name}, service)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get APIService %s: %w", a.Name, err)
	}
	current, _, err := unstructured.NestedString(service.Object, "spec", "caBundle")
	if err != nil {
		return fmt.Errorf("read the authority of APIService %s: %w", a.Name, err)
	}
	if current == base64.StdEncoding.EncodeToString(bundle) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": service.GetResourceVersion()},
		"spec":     map[string]any{"caBundle": bundle},
	})
	if err != nil {
		return fmt.Errorf("put the authority into APIService %s: %w", a.Name, err)
	}
	err = a.Client.Patch(ctx, service, client.RawPatch(types.MergePatchType, patch))
	if err := ignoreConflict(client.IgnoreNotFound(err)); err != nil {
		return fmt.Errorf("put the authority into APIService %s: %w", a.Name, err)
	}
	return nil
}
