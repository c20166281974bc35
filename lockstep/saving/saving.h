// All of saving: models, weights, SavedModels, and the callbacks that save.
#pragma once

#include "lockstep/saving/backup_and_restore.h"
#include "lockstep/saving/export_archive.h"
#include "lockstep/saving/keras_export.h"
#include "lockstep/saving/keras_file_editor.h"
#include "lockstep/saving/keras_objects.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/model_checkpoint.h"
#include "lockstep/saving/saved_model.h"
