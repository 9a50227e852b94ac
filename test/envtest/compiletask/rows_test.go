package compiletask_test

import (
	"sync"

	. "github.com/onsi/ginkgo/v2"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// row is a task's case in a table whose tasks run side by side.
type row[W any] struct {
	name      string
	behaviour fakeruntime.Behaviour
	patient   bool
	act       func(key string)
	want      W
}

// rows is a table of cases. Each is a spec of its own, which looks at how its task
// ended; what leads there is begun for all of them at once, by begin.
type rows[W any] struct {
	rows   []row[W]
	tasks  []*v1alpha1.CompileTask
	create func(row[W]) *v1alpha1.CompileTask
	act    func(row[W], *v1alpha1.CompileTask)
}

func newRows[W any](prefix string, create func(row[W]) *v1alpha1.CompileTask, act func(row[W], *v1alpha1.CompileTask),
	check func(W, *v1alpha1.CompileTask), all ...row[W],
) *rows[W] {
	table := &rows[W]{rows: all, create: create, act: act}
	for i, r := range all {
		It(prefix+r.name, func() { check(r.want, table.tasks[i]) })
	}
	return table
}

func (r *rows[W]) begin() {
	GinkgoHelper()
	for _, one := range r.rows {
		r.tasks = append(r.tasks, r.create(one))
	}
	var acting sync.WaitGroup
	for i, one := range r.rows {
		acting.Go(func() {
			defer GinkgoRecover()
			r.act(one, r.tasks[i])
		})
	}
	acting.Wait()
}
