// Package ringsecret keeps the key ring in a Secret of the operator's namespace.
package ringsecret

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/internal/sealed"
)

// Name is the name of the Secret, and Type its type.
const (
	Name = "agentruntime-key-ring"
	Type = "agentruntime.dev/key-ring"
)

// Ensure reads the key ring of the namespace, after making one where there is
// none. Of several processes that find none, all end with the ring of the first.
// A ring that can't be read is an error: a new one would leave every sealed body
// unreadable.
func Ensure(ctx context.Context, reader client.Reader, writer client.Writer, namespace string) (*sealed.KeyRing, error) {
	key := types.NamespacedName{Namespace: namespace, Name: Name}
	var secret corev1.Secret
	err := reader.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		fresh := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name},
			Type:       Type, Data: sealed.GenerateKeyRingData(),
		}
		if err = writer.Create(ctx, fresh); err == nil {
			return sealed.ParseKeyRing(fresh.Data)
		}
		if apierrors.IsAlreadyExists(err) {
			err = reader.Get(ctx, key, &secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ensure the key ring Secret %s: %w", key, err)
	}
	if secret.Type != Type {
		return nil, fmt.Errorf("Secret %s has type %q, want %q: it is not the operator's; remove it or restore the key ring", key, secret.Type, Type)
	}
	ring, err := sealed.ParseKeyRing(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("read the key ring Secret %s: %w", key, err)
	}
	return ring, nil
}
