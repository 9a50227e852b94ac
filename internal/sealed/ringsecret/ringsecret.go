// Package ringsecret keeps the key ring in a Secret of the operator's namespace.
package ringsecret

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/internal/sealed"
)

// Name is the name of the Secret, and Type its type.
const (
	Name = "agentruntime-key-ring"
	Type = "agentruntime.dev/key-ring"
)

// Ensure reads the key ring of the namespace. The Secret comes empty with the
// manifests, and the first caller fills it; of several at once, all end with the
// ring of the first. A ring that lacks the name key gets one. A ring that is there
// and can't be read is an error, and so is a Secret that is missing: a new ring
// would leave every body that was sealed before unreadable. The reader must not
// cache.
func Ensure(ctx context.Context, reader client.Reader, writer client.Writer, namespace string) (*sealed.KeyRing, error) {
	key := keyIn(namespace)
	secret, err := read(ctx, reader, key)
	if err != nil {
		return nil, err
	}
	data, err := complete(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("read the key ring's Secret %s: %w", key, err)
	}
	if len(data) == len(secret.Data) {
		return parse(key, secret)
	}
	secret.Data = data
	err = writer.Update(ctx, secret)
	if apierrors.IsConflict(err) {
		// Another caller was first, and its ring is the ring.
		return Load(ctx, reader, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("fill the key ring's Secret %s: %w", key, err)
	}
	return parse(key, secret)
}

// Load reads the key ring of the namespace and writes nothing. An empty Secret,
// which no manager has filled yet, and a ring without the name key are errors that
// pass when a manager starts. The reader must not cache.
func Load(ctx context.Context, reader client.Reader, namespace string) (*sealed.KeyRing, error) {
	key := keyIn(namespace)
	secret, err := read(ctx, reader, key)
	if err != nil {
		return nil, err
	}
	if len(secret.Data) == 0 {
		return nil, fmt.Errorf("the key ring's Secret %s is empty: the manager fills it when it starts", key)
	}
	ring, err := parse(key, secret)
	if err != nil {
		return nil, err
	}
	if !ring.HasNames() {
		return nil, fmt.Errorf("the key ring's Secret %s has no entry %q: the manager adds it when it starts", key, sealed.NamesEntry)
	}
	return ring, nil
}

func keyIn(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: Name}
}

// complete returns data with all that a ring needs: a new ring where there is none,
// and the name key where it lacks. What is complete stays as it is.
func complete(data map[string][]byte) (map[string][]byte, error) {
	if len(data) == 0 {
		return sealed.GenerateKeyRingData(), nil
	}
	return sealed.AddNameKey(data)
}

func parse(key types.NamespacedName, secret *corev1.Secret) (*sealed.KeyRing, error) {
	ring, err := sealed.ParseKeyRing(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("read the key ring's Secret %s: %w", key, err)
	}
	return ring, nil
}

func read(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.Secret, error) {
	var secret corev1.Secret
	if err := reader.Get(ctx, key, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("the key ring's Secret %s is missing: restore it from a backup or, in a new installation, apply config/default: %w", key, err)
		}
		return nil, fmt.Errorf("get the key ring's Secret %s: %w", key, err)
	}
	if secret.Type != Type {
		return nil, fmt.Errorf("the Secret %s has type %q, want %q: it is not the operator's", key, secret.Type, Type)
	}
	return &secret, nil
}
