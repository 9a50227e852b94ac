package tasks

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func names(tasks []*v1alpha1.CompileTask) []string {
	out := make([]string, 0, len(tasks))
	for _, task := range tasks {
		out = append(out, task.Name)
	}
	return out
}

func downFrom(high, low int) []string {
	out := []string{}
	for n := high; n >= low; n-- {
		out = append(out, named(n))
	}
	return out
}

func TestListsAreNewestFirst(t *testing.T) {
	r := newRig(t, Limits{})
	for _, n := range []int{3, 1, 9, 5, 7} {
		r.sync(r.server.put(newTask(n)))
		foreign := newTask(n + 1)
		foreign.Spec.Requester = bob
		r.sync(r.server.put(foreign))
	}
	elsewhere := newTask(11)
	elsewhere.Namespace = "another"
	r.sync(r.server.put(elsewhere))
	cases := map[string]struct {
		query    Query
		want     []string
		wantMore bool
	}{
		"everybody's":             {Query{Namespace: "team", Limit: 50}, downFrom(10, 1), false},
		"exactly as many":         {Query{Namespace: "team", Limit: 10}, downFrom(10, 1), false},
		"fewer":                   {Query{Namespace: "team", Limit: 9}, downFrom(10, 2), true},
		"one user's":              {Query{Namespace: "team", Requester: "alice", Limit: 2}, []string{named(9), named(7)}, true},
		"after a place":           {Query{Namespace: "team", Limit: 2, After: ptr(placeOf(newTask(5)))}, downFrom(4, 3), true},
		"after a place of nobody": {Query{Namespace: "team", Limit: 9, After: &Place{Created: start.Add(3500 * time.Millisecond)}}, downFrom(3, 1), false},
		"matching":                {Query{Namespace: "team", Limit: 9, Match: of("bob")}, []string{named(10), named(8), named(6), named(4), named(2)}, false},
		"of another namespace":    {Query{Namespace: "another", Limit: 9}, []string{named(11)}, false},
		"of an unknown user":      {Query{Namespace: "team", Requester: "carol", Limit: 9}, []string{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, more, err := r.List(t.Context(), tc.query)
			if diff := cmp.Diff(tc.want, names(got)); diff != "" || err != nil || more != tc.wantMore {
				t.Errorf("more %v, %v (-want +got):\n%s", more, err, diff)
			}
		})
	}
	if _, _, err := r.List(t.Context(), Query{Namespace: "team"}); err == nil {
		t.Error("a list without limit was made")
	}
	if r.server.reads() != 0 {
		t.Errorf("%d live reads", r.server.reads())
	}
}

func ptr[T any](v T) *T { return &v }

// Pages hold every task once, also where many were created at the same time and
// others come and go in between.
func TestPagesAreWhole(t *testing.T) {
	r := newRig(t, Limits{})
	const count = 3*chunk + 7
	for n := range count {
		task := newTask(n)
		task.Spec.RESTRequest.ReceivedTime = ptr(metav1.NewMicroTime(start.Add(time.Duration(n/100) * time.Second)))
		r.sync(r.server.put(task))
	}
	var got []string
	query := Query{Namespace: "team", Requester: "alice", Limit: 37}
	for more := true; more; {
		var page []*v1alpha1.CompileTask
		var err error
		page, more, err = r.List(t.Context(), query)
		if err != nil || len(page) == 0 {
			t.Fatal(page, err)
		}
		got = append(got, names(page)...)
		query.After = ptr(placeOf(page[len(page)-1]))
		r.sync(r.server.put(newTask(count + len(got)))) // newer ones do not disturb
	}
	if diff := cmp.Diff(downFrom(count-1, 0), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rare, more, err := r.List(t.Context(), Query{Namespace: "team", Limit: 1, Match: func(task *v1alpha1.CompileTask) bool { return task.Name == named(3) }})
	if err != nil || more || len(rare) != 1 {
		t.Errorf("%v, more %v, %v", names(rare), more, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := r.List(ctx, Query{Namespace: "team", Limit: 1}); err == nil {
		t.Error("a list for nobody was made")
	}
}

func TestListsHaveOwnWrites(t *testing.T) {
	r := newRig(t, Limits{})
	for n := range 4 {
		created, err := r.Create(t.Context(), alice, newTask(n))
		if err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			r.sync(created)
		}
	}
	listed, more, err := r.List(t.Context(), Query{Namespace: "team", Requester: "alice", Limit: 3})
	if diff := cmp.Diff(downFrom(3, 1), names(listed)); diff != "" || err != nil || !more {
		t.Errorf("more %v, %v (-want +got):\n%s", more, err, diff)
	}
	listed, _, err = r.List(t.Context(), Query{Namespace: "team", Requester: "alice", Limit: 3, After: ptr(placeOf(newTask(2)))})
	if diff := cmp.Diff(downFrom(1, 0), names(listed)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if others, _, _ := r.List(t.Context(), Query{Namespace: "team", Requester: "bob", Limit: 3}); len(others) != 0 {
		t.Errorf("bob sees %v", names(others))
	}
	if _, err := r.Cancel(t.Context(), alice, newTask(2)); err != nil {
		t.Fatal(err)
	}
	cancelled, _, err := r.List(t.Context(), Query{Namespace: "team", Limit: 9, Match: func(task *v1alpha1.CompileTask) bool { return task.Spec.Cancel }})
	if diff := cmp.Diff(downFrom(2, 2), names(cancelled)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// filled is a store as large as the design has it: 100,000 tasks, 10,000 of alice.
func filled(b *testing.B) *rig {
	b.Helper()
	r := newRig(b, Limits{})
	for n := range 100_000 {
		task := newTask(n)
		task.ResourceVersion, task.UID = fmt.Sprint(n+1), types.UID(fmt.Sprintf("%032x", n))
		if n%10 != 0 {
			task.Spec.Requester.Username = fmt.Sprintf("user-%d", n%97)
		}
		trim(task)
		r.observe(task)
	}
	return r
}

func BenchmarkFind(b *testing.B) {
	r := filled(b)
	id, visible := wireID(50_000), of("alice")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Find(b.Context(), "team", id, visible); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	r := filled(b)
	for name, query := range map[string]Query{
		"OwnFirst50":    {Namespace: "team", Requester: "alice", Limit: 50},
		"OwnAfter5000":  {Namespace: "team", Requester: "alice", Limit: 50, After: ptr(placeOf(newTask(50_000)))},
		"AllFirst50":    {Namespace: "team", Limit: 50},
		"NoneOf10000":   {Namespace: "team", Requester: "alice", Limit: 50, Match: func(*v1alpha1.CompileTask) bool { return false }},
		"NoneOf100000":  {Namespace: "team", Limit: 50, Match: func(*v1alpha1.CompileTask) bool { return false }},
		"UnknownsFirst": {Namespace: "team", Requester: "nobody", Limit: 50},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.List(b.Context(), query); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	r := filled(b)
	tasks := slices.Collect(func(yield func(*v1alpha1.CompileTask) bool) {
		for n := 0; n < 1000 && yield(newTask(n*100)); n++ {
		}
	})
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		r.observe(tasks[n%len(tasks)])
	}
}
