package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/test/stack"
)

const (
	demoNamespace = "demo"
	demoUser      = "alice"
	eventsRole    = "demo-events-viewer"
)

// demo is the running system with what the story needs.
type demo struct {
	*stack.Stack
	// user is a plain user with the shipped roles in one namespace.
	user *stack.User
	// authority is the file with the facade's authority, for curl.
	authority string
	// key is the user's API key.
	key string
}

// start returns what runs beside an error, too: then it has to be stopped.
func start(ctx context.Context, o options) (*demo, error) {
	running, err := stack.Start(ctx, stack.Options{
		Assets: o.assets,
		// Puts every task on record as soon as the executor has it, so that the quick
		// ones of the demo show their events too.
		ManagerFlags: []string{"--first-poll-wait=0"},
		Step:         printStep,
	})
	if err != nil {
		return nil, err
	}
	d := &demo{Stack: running}
	for _, prepare := range []func(context.Context) error{d.makeUser, d.writeAuthority} {
		if err := prepare(ctx); err != nil {
			return d, err
		}
	}
	if err := d.Sample(demoNamespace); err != nil {
		return d, err
	}
	// The documents of the caller's choice take the place of the samples.
	docs := filepath.Join(d.Content, demoNamespace, "resources", "docs")
	if err := os.RemoveAll(docs); err != nil {
		return d, err
	}
	return d, d.Place(o.from, demoNamespace, "resources", "docs")
}

func printStep(number, of int, title string, took time.Duration, done bool) {
	if !done {
		fmt.Printf("[%d/%d] %s ... ", number, of, title)
		return
	}
	fmt.Printf("%.1f s\n", took.Seconds())
}

// makeUser gives the demo's user the shipped roles in one namespace.
func (d *demo) makeUser(ctx context.Context) error {
	var err error
	if d.user, err = d.AddUser(ctx, demoUser); err != nil {
		return err
	}
	if err := errors.Join(d.user.UseNamespace(demoNamespace), d.AddNamespace(ctx, demoNamespace)); err != nil {
		return err
	}
	// In a cluster the role view shows events; here nothing aggregates it.
	err = d.Client.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: eventsRole},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"get", "list", "watch"}}},
	})
	if err != nil {
		return fmt.Errorf("make the role for events: %w", err)
	}
	return d.Bind(ctx, demoNamespace, stack.UserSubject(demoUser),
		eventsRole, "agentruntime-viewer", "agentruntime-user", "agentruntime-runtime-user")
}

func (d *demo) writeAuthority(ctx context.Context) error {
	authority, err := d.FacadeAuthority(ctx)
	if err != nil {
		return err
	}
	d.authority = filepath.Join(d.Dir, "facade-ca.crt")
	return os.WriteFile(d.authority, authority, 0o600)
}
