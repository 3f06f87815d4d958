import { inspectCompute } from './bare-server.ts';
import { type Login, loginOf } from './between.ts';
import { createProject, type Installation, type Project } from './installation.ts';
import type { PgBouncerTarget } from './pgbouncer.ts';

/** A project whose compute is of the machine's size: what stands in front is measured, not the compute's share of the CPU. */
export interface LargeProject {
  readonly project: Project;
  readonly login: Login;
  /** For a PgBouncer in front of the same compute. */
  readonly target: PgBouncerTarget;
}

/** Makes the project and waits until its compute runs. */
export async function createLargeProject(installation: Installation): Promise<LargeProject> {
  const project = await createProject(installation, {
    default_endpoint_settings: { autoscaling_limit_min_cu: 2, autoscaling_limit_max_cu: 2 },
  });
  const login = loginOf(new URL(project.connection_uri));
  const { layout, record } = inspectCompute(installation, project.endpoint_id);
  const { user, database } = login;
  return { project, login, target: { user, database, socket_directory: layout.socket_directory, owner: record.owner } };
}
