// Command golangci-lint is the stock golangci-lint with kube-api-linter linked
// in as a module plugin, so one binary serves both .golangci.yml and the
// configuration for api/ in hack/golangci-kal.yml.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"

	// Registers the linter "kubeapilinter".
	_ "sigs.k8s.io/kube-api-linter"
)

// linterModule is the module whose version the binary reports as its own.
const linterModule = "github.com/golangci/golangci-lint/v2"

func main() {
	if err := commands.Execute(buildInfo()); err != nil {
		fmt.Fprintf(os.Stderr, "golangci-lint: %v\n", err)
		os.Exit(exitcodes.Failure)
	}
}

// buildInfo names the version of golangci-lint that is linked in.
func buildInfo() commands.BuildInfo {
	info := commands.BuildInfo{Version: "unknown", GoVersion: "unknown", Commit: "with kube-api-linter"}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	info.GoVersion = build.GoVersion
	for _, dep := range build.Deps {
		if dep.Path == linterModule {
			info.Version = strings.TrimPrefix(dep.Version, "v")
		}
	}
	return info
}
