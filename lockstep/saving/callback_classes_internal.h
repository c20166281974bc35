// The table of callbacks. It stands above keras because ModelCheckpoint and BackupAndRestore save models.
#pragma once

#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/class_table_internal.h"

namespace lockstep::callbacks {

const keras::ClassFamily<keras::Callback>& classes();

}  // namespace lockstep::callbacks
