#!/usr/bin/env node
import { runCommandLine } from '../src/main/command-line.ts';

await runCommandLine(process.argv);
