// Command pause holds a pod's namespaces until the pod ends.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Processes of a shared PID namespace become its children; ignored, they leave no zombies.
	signal.Ignore(syscall.SIGCHLD)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
