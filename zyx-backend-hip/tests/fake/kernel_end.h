// How the kernel is called, and what it is called with: size of each argument, with 256 added for addresses.
template <class T> struct Kind { enum { value = 0 }; };
template <class T> struct Kind<T *> { enum { value = 256 }; };
template <unsigned... I> struct Numbers {};
template <unsigned N, unsigned... I> struct Make : Make<N - 1, N - 1, I...> {};
template <unsigned... I> struct Make<0, I...> { typedef Numbers<I...> type; };
template <class... A, unsigned... I> static void fake_spread(void (*f)(A...), void **a, Numbers<I...>) { f(*(A *)a[I]...); }
template <class... A> static void fake_apply(void (*f)(A...), void **a) {
    fake_spread(f, a, typename Make<sizeof...(A)>::type());
}
template <class... A> static const unsigned *fake_sizes(void (*)(A...)) {
    static const unsigned all[] = {sizeof...(A), (unsigned)sizeof(A) + Kind<A>::value...};
    return all;
}
extern "C" const unsigned *fake_describe() { return fake_sizes(zyx_kernel); }
extern "C" void fake_call(void **arguments) { fake_apply(zyx_kernel, arguments); }
