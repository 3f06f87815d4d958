import Type from 'typebox';
import { PRELOAD_LIBRARIES } from '../../domain/preload-libraries.ts';
import { reply, route } from '../route.ts';
import { ProjectParams } from '../schemas/fields.ts';

const PreloadLibrary = Type.Object({
  library_name: Type.String(),
  description: Type.String(),
  is_default: Type.Boolean(),
  is_experimental: Type.Boolean(),
  version: Type.String(),
});

export const preloadLibraryRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/available_preload_libraries',
    permission: 'project.read',
    summary: 'Lists libraries that computes of the project can load at their start',
    schema: { params: ProjectParams, response: { 200: Type.Object({ libraries: Type.Array(PreloadLibrary) }) } },
    handle: async ({ project }) =>
      reply(200, {
        libraries: PRELOAD_LIBRARIES.map(({ name, description, is_default, versions }) => ({
          library_name: name,
          description,
          is_default,
          is_experimental: false,
          version: versions[project.pg_version] ?? '',
        })),
      }),
  }),
];
