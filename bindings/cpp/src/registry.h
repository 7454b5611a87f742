// Recognizes objects that this library made among objects of a base class that programs subclass.
#ifndef TERRACE_CPP_REGISTRY_H_
#define TERRACE_CPP_REGISTRY_H_

#include <mutex>
#include <unordered_set>

namespace terrace_cpp {

// The living objects of T, a subclass of Base. A dynamic_cast from Base to T would read type
// information, which the objects of a program do not have if it was compiled with -fno-rtti.
template <class T, class Base>
class Registry {
 public:
  // A member of T that lists the T for its lifetime.
  class Entry {
   public:
    explicit Entry(const Base* object) : object_(object) {
      std::lock_guard<std::mutex> guard(All().mutex);
      All().objects.insert(object_);
    }
    ~Entry() {
      std::lock_guard<std::mutex> guard(All().mutex);
      All().objects.erase(object_);
    }

    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    const Base* const object_;
  };

  // Returns `object` if it is a T of this library, and nullptr otherwise.
  static const T* Find(const Base* object) {
    std::lock_guard<std::mutex> guard(All().mutex);
    return All().objects.count(object) != 0 ? static_cast<const T*>(object) : nullptr;
  }

 private:
  struct Living {
    std::mutex mutex;  // guards the objects
    std::unordered_set<const Base*> objects;
  };

  // Never destroyed, because programs destroy objects at their exit in any order.
  static Living& All() {
    static auto* living = new Living;
    return *living;
  }
};

}  // namespace terrace_cpp

#endif
