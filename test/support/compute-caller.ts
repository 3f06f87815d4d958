import { createProcessDriver } from '../../src/drivers/compute/process/driver.ts';

/** What `callFromOutside` runs: a process that brings up one compute and then waits to be ended. */
const { stateDir, runDir, spec } = JSON.parse(process.argv[2]!);
const driver = createProcessDriver({ stateDir, runDir });
process.stdout.write('calling\n');
await driver.ensureRunning(spec);
process.stdout.write('running\n');
setInterval(() => undefined, 60_000);
