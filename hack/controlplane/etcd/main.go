// Command etcd is the stock etcd server, built from its module because the
// project downloads no prebuilt binaries.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
