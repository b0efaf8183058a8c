#!/usr/bin/env node
// The command of a checkout. The package of the command line holds the real one.
import "../packages/cli/bin/switchyard.mjs"
