// Classes of devices that do alike, so that what follows from uses and waits is computed for one device of each class alone.
// Internal to program/ and partition/.
//
// Two devices are alike if their buffers and tasks, each in the order of their ids, pair up: buffers of one element type,
// shape, lifetime, number of slots and storage; tasks of one lane that use the same boxes of paired buffers in the same way
// and wait for paired tasks. What tasks compute, whom they meet and what tasks and buffers are called makes no difference.
//
// A value that keeps nothing of the Program; threads may share it.
#ifndef COLONNADE_PROGRAM_DEVICE_CLASSES_H_
#define COLONNADE_PROGRAM_DEVICE_CLASSES_H_

#include <vector>

#include "program/program.h"

namespace colonnade::program {

class DeviceClasses {
 public:
  // Finds the classes in O(tasks + buffers). REQUIRES: the Program keeps the rules `structure` and `waits`.
  explicit DeviceClasses(const Program& program);
  // Puts each device in a class of its own. TasksOf, BuffersOf and PairOf may not be called on the result.
  static DeviceClasses EachApart(const Program& program);

  // Returns the first device that is like `device`.
  int RepresentativeOf(int device) const { return representative_[device]; }
  bool IsRepresentative(int device) const { return representative_[device] == device; }
  // Takes `device` out of its class. REQUIRES: it is not the representative of others.
  void SetApart(int device) { representative_[device] = device; }

  const std::vector<TaskId>& TasksOf(int device) const { return tasks_.of_device[device]; }
  const std::vector<BufferId>& BuffersOf(int device) const { return buffers_.of_device[device]; }
  // Return what on `device` pairs with a task or buffer of a device that is like it.
  TaskId PairOf(TaskId task, int device) const { return tasks_.of_device[device][tasks_.index[task.value]]; }
  BufferId PairOf(BufferId buffer, int device) const { return buffers_.of_device[device][buffers_.index[buffer.value]]; }

 private:
  // Tasks or buffers, numbered within their devices.
  template <class Id>
  struct Numbers {
    std::vector<std::vector<Id>> of_device;
    std::vector<int> index;  // by id
  };
  struct Apart {};
  DeviceClasses(const Program& program, Apart);

  void FindCandidates(const Program& program);
  void SetApartWhatDiffers(const Program& program);
  bool AreAlike(const Buffer& a, const Buffer& b) const;
  bool AreAlike(const Task& a, const Task& b) const;
  template <class Id>
  bool ArePaired(const Numbers<Id>& numbers, Id a, Id b) const {
    return numbers.index[a.value] == numbers.index[b.value];
  }

  Numbers<TaskId> tasks_;
  Numbers<BufferId> buffers_;
  std::vector<int> representative_;  // by device
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_DEVICE_CLASSES_H_
