// Command facade serves the operator's REST API: OpenViking's Compile and Tasks
// dialect over CompileTasks, with Kubernetes RBAC as the ownership check.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	command := newCommand()
	if err := command.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "facade:", err)
		os.Exit(1)
	}
}
